"""Which refusals say that the key or the money is at fault, though their status says that the request is.

Gateways and providers send 400, 403 and 429 for an expired key and for a used-up budget. A machine-readable code counts
first. The words of a message count only where they are the provider's own: a provider may quote a text that it refuses,
and a text about unpaid bills must not stop a queue. So a phrase that occurs in a text of the request proves nothing.

Each entry was seen in a public report or stands in the provider's documents; `tests/unit/test_errors_provider.py` has
the bodies.
"""

import re
from collections.abc import Callable

from neo4j_queue.errors.provider_body import ErrorBody

# True for a phrase that occurs in a text of the request.
Quoted = Callable[[str], bool]

# The budget, the credit or the free share of the account is used up.
QUOTA_CODES = frozenset(
    {
        "insufficient_quota",  # OpenAI
        "billing_hard_limit_reached",
        "billing_not_active",
        "budget_exceeded",  # LiteLLM
        "exceeded_current_quota_error",  # Moonshot
        "insufficient_user_quota",  # new-api, one-api
        "pre_consume_token_quota_failed",
        "insufficient_balance",
        "insufficient_credits",
        "arrearage",  # DashScope: the account is in debt
        "allocationquota.freetieronly",  # DashScope: the free share is used up
    }
)
# The key is wrong, revoked or expired.
KEY_CODES = frozenset(
    {
        "api_key_invalid",  # Google
        "api_key_expired",
        "api_key_service_blocked",
        "invalid_api_key",  # OpenAI, DashScope
        "invalidapikey",
        "expired_key",  # LiteLLM
        "token_not_found_in_db",
        "key_model_access_denied",
        "authentication_error",
        "invalid_authentication_error",  # Moonshot
    }
)

# Words of a budget that no wait of a minute brings back. "You exceeded your current quota" is not among them: Gemini
# says it of its limits per minute too.
QUOTA_WORDS = re.compile(
    r"budget has been exceeded|exceeded\s?budget|crossed budget|has exceeded their budget"
    r"|credit balance is too low|(?:your|account) balance is insufficient"
    r"|insufficient (?:account |user |token )?(?:balance|credits?|funds|quota)"
    r"|(?:not enough|run out of|out of) credits|billing hard limit|spending limit (?:has been )?(?:reached|exceeded)"
    r"|account is in good standing|余额不足|额度不足|欠费",
    re.IGNORECASE,
)
# The same, of the error of a job as it is stored, for the database to match: the code stands in brackets at its end,
# and what the provider quoted of a text was taken out. Java reads it as Python does.
NO_MONEY_STORED = (
    rf"(?is).*(?:{QUOTA_WORDS.pattern}|\[(?:{'|'.join(map(re.escape, sorted(QUOTA_CODES)))})\]).*"
)
KEY_WORDS = re.compile(
    r"(?:api[ _-]?key|access token|authentication token) (?:has |is |was )?(?:been )?"
    r"(?:expired|not valid|invalid|revoked|disabled|deleted|deactivated|missing|not found)"
    r"|(?:invalid|incorrect|expired|revoked|wrong) (?:api[ _-]?key|access token|authentication|credentials)"
    r"|(?:no|missing) api[ _-]?key|expired key|令牌已过期|无效的令牌",
    re.IGNORECASE,
)


def means_no_money(body: ErrorBody, quoted: Quoted) -> bool:
    """True if a refusal says that the budget of the account is used up."""
    return _says(body, QUOTA_CODES, QUOTA_WORDS, quoted)


def means_wrong_key(body: ErrorBody, quoted: Quoted) -> bool:
    """True if a refusal says that the key is wrong, revoked or expired."""
    return _says(body, KEY_CODES, KEY_WORDS, quoted)


def _says(body: ErrorBody, codes: frozenset[str], words: re.Pattern[str], quoted: Quoted) -> bool:
    if body.codes & codes:
        return True
    # A text may hold a whole error body of another program: what stands inside the message may be a quotation too.
    phrases = [*(body.nested & codes), *(match.group() for match in words.finditer(body.message))]
    return any(not quoted(phrase) for phrase in phrases)
