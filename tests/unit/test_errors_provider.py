"""What refusals say of the key and the money: bodies as providers and gateways send them, and texts that quote them."""

import json
from typing import Any

import openai
import pytest

from neo4j_queue.errors import Fault, FaultKind, classify
from neo4j_queue.errors.provider_body import ErrorBody

QUOTA, KEY, REQUEST, RATE = (
    FaultKind.QUOTA,
    FaultKind.CONFIGURATION,
    FaultKind.REQUEST,
    FaultKind.RATE_LIMIT,
)
GOOGLE = {
    "code": 400,
    "message": "API key expired. Please renew the API key.",
    "status": "INVALID_ARGUMENT",
    "details": [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "API_KEY_INVALID",
            "domain": "googleapis.com",
            "metadata": {"service": "generativelanguage.googleapis.com"},
        }
    ],
}
# (status, the body as the client hands it on, its meaning). The client takes the value of `error` out of an object.
BODIES: dict[str, tuple[int, Any, FaultKind]] = {
    # google-gemini/gemini-cli#4430, continuedev/continue#11336
    "Gemini, expired key": (400, [{"error": GOOGLE}], KEY),
    "Gemini, wrong key": (400, {"message": "API key not valid. Please pass a valid API key."}, KEY),
    "Gemini behind a gateway": (400, {"message": json.dumps({"error": GOOGLE}, indent=2), "code": 400}, KEY),
    # BerriAI/litellm#14144, #4208; its documents
    "LiteLLM, budget as a bad request": (
        400,
        {"message": "Budget has been exceeded! Team=99c7 Current cost: 14.2, Max budget: 10", "code": "400"},
        QUOTA,
    ),
    "LiteLLM, budget as an authentication error": (
        400,
        {"message": "Budget has been exceeded! Current cost: 0.001, Max budget: 0.0", "type": "auth_error"},
        QUOTA,
    ),
    "LiteLLM, budget as 401": (
        401,
        {"message": "Authentication Error, ExceededBudget: User=a over budget. Spend=2.1, Budget=1"},
        QUOTA,
    ),
    "LiteLLM, budget by its type": (429, {"message": "LiteLLM User: e", "type": "budget_exceeded"}, QUOTA),
    "LiteLLM, deployments": (429, {"message": "No deployments available - crossed budget: x >= 1d"}, QUOTA),
    "LiteLLM, expired key": (
        400,
        {"message": "Authentication Error - Expired Key. Key Expiry time 2024", "type": "expired_key"},
        KEY,
    ),
    # QuantumNous/new-api#2266 and its sources
    "new-api, used up": (403, {"message": "用户额度不足, 剩余额度: ＄0.0", "type": "new_api_error"}, QUOTA),
    "new-api, by its code": (403, {"message": "no", "code": "insufficient_user_quota"}, QUOTA),
    "new-api, expired key": (400, {"message": "该令牌已过期", "type": "new_api_error"}, KEY),
    # documents of the providers
    "OpenAI": (429, {"message": "You exceeded your current quota", "code": "insufficient_quota"}, QUOTA),
    "OpenAI, hard limit": (400, {"message": "Billing hard limit has been reached", "code": "x"}, QUOTA),
    "Anthropic's words": (400, {"message": "Your credit balance is too low to access the API"}, QUOTA),
    "SiliconFlow": (403, {"code": 30001, "message": "Sorry, your account balance is insufficient"}, QUOTA),
    "DeepSeek": (400, {"message": "Insufficient Balance", "type": "unknown_error"}, QUOTA),
    "DashScope, debt": (400, {"code": "Arrearage", "message": "Access denied, please make sure"}, QUOTA),
    "DashScope, free share": (403, {"code": "AllocationQuota.FreeTierOnly", "message": "exhausted"}, QUOTA),
    "Moonshot": (429, {"message": "Your account", "type": "exceeded_current_quota_error"}, QUOTA),
    "OpenRouter": (402, {"message": "Insufficient credits", "code": 402}, QUOTA),
    "no model, as a 400": (400, {"message": "Model Not Exist", "code": "model_not_found"}, KEY),
    # the same words mean less
    "Gemini, limit of a minute": (
        429,
        [
            {
                "error": {
                    "code": 429,
                    "message": "You exceeded your current quota, please check your plan and billing",
                }
            }
        ],
        RATE,
    ),
    "Gemini, quota of a metric": (
        429,
        {
            "message": "Quota exceeded for quota metric 'Embed requests per minute'",
            "status": "RESOURCE_EXHAUSTED",
        },
        RATE,
    ),
    "a text that is too long": (400, {"message": "maximum context length is 8192 tokens"}, REQUEST),
    "a wrong field": (
        400,
        {"message": "Invalid value for 'encoding_format'", "type": "invalid_request_error"},
        REQUEST,
    ),
    "an outage with such words": (503, {"message": "Budget has been exceeded!"}, FaultKind.OUTAGE),
}


def fault(status: int, body: object, *texts: str, headers: dict[str, str] | None = None) -> Fault:
    import httpx2

    request = httpx2.Request(
        "POST", "http://provider.invalid/v1/embeddings", json={"input": [*texts, "other"]}
    )
    response = httpx2.Response(status, request=request, headers=headers)
    return classify(openai.APIStatusError("m", response=response, body=body))


def fault_kind(status: int, body: object, *texts: str) -> FaultKind:
    return fault(status, body, *texts).kind


@pytest.mark.parametrize("name", BODIES)
def test_a_refusal_means_what_its_provider_means(name: str) -> None:
    """Seen failing before: 400 with such words was the texts' fault, and failed them for good."""
    status, body, kind = BODIES[name]

    assert fault_kind(status, body) is kind


def test_the_wait_in_a_body_counts_where_no_header_names_one() -> None:
    """Seen failing before: Gemini's 429 says in its body alone when to come back."""
    body = [{"error": {"code": 429, "details": [{"@type": "x"}, {"retryDelay": "34.07s"}]}}]

    assert fault(429, body).retry_after_s == pytest.approx(34.07)
    assert fault(429, body, headers={"retry-after": "5"}).retry_after_s == 5.0
    assert fault(400, body).retry_after_s is None
    for odd in ("soon", None, ["34s"], "9" * 90, -1):
        assert fault(429, [{"error": {"details": [{"retryDelay": odd}]}}]).retry_after_s in (None, 3_600.0)


QUOTED = [
    "The client's credit balance is too low to go on",
    "BUDGET HAS BEEN EXCEEDED",
    "minutes: the Budget\nhas been exceeded again",
    "Invalid API key",
    'log: {"error": {"code": "insufficient_quota", "message": "x"}}',
    "用户额度不足",
]


@pytest.mark.parametrize("text", QUOTED)
@pytest.mark.parametrize(
    "quote",
    [
        lambda text: text,
        lambda text: f"cannot embed {text!r}",
        lambda text: f"cannot embed {json.dumps(text)}",
        lambda text: f"cannot embed {' '.join(text.lower().split())}",
    ],
    ids=["itself", "as Python", "as JSON", "in lower case"],
)
def test_a_text_that_holds_such_words_stops_no_queue(text: str, quote: Any) -> None:
    """Guard: `quoted` in `_says`. Without it each of these halts the queue, or stops it for an hour."""
    assert fault_kind(400, {"message": quote(text)}, f"before {text} after") is REQUEST


def test_a_code_of_the_provider_counts_whatever_the_texts_say() -> None:
    body = {"message": "no", "code": "insufficient_quota"}

    assert fault_kind(429, body, "a text about insufficient_quota") is QUOTA


def test_the_providers_own_words_count_beside_a_quotation() -> None:
    body = {"message": "Expired key. Input was: 'Insufficient balance'"}

    assert fault_kind(400, body, "Insufficient balance") is KEY


@pytest.mark.parametrize(
    "body",
    [
        {"message": "x", "details": [{"reason": "API_KEY_INVALID"}] * 1_000_000},
        {"message": "{" * 19_000},
        {"message": '{"error":' * 3_000},
        {"message": "insufficient " * 1_000_000},
        {"code": "c" * 1_000_000, "message": "api key " * 500_000},
    ],
    ids=["details", "braces", "deep", "words", "long code"],
)
def test_a_huge_or_deep_body_is_read_in_bounded_time(body: dict[str, Any]) -> None:
    read = ErrorBody.of(body)

    assert len(read.codes) <= 10
    assert fault_kind(400, body, "text") in (REQUEST, KEY)
