"""A worker tells at once when the dead letters become too many."""

from structlog.testing import capture_logs

from neo4j_queue.errors import TemporarilyUnavailable
from neo4j_queue.mock_provider import error
from tests.pipeline.conftest import MakeBench

BAD = {"error": {"message": "refused", "type": "invalid_request_error"}}


def test_the_batch_that_makes_them_too_many_says_so_once(make_bench: MakeBench) -> None:
    """Guard: `_tell_dead_letters` in the settlement; without it the next heartbeat would say it, minutes later. Good
    batches ask nothing."""
    bench = make_bench(embed_dead_letter_alert=2, embed_batch_size=4)
    bench.provider.reply_to_text("poison", error(400, BAD))
    with capture_logs() as lines:
        bench.create("a", "b", "poison 1", "poison 2")
        bench.step()
        assert not [line for line in lines if line["event"].startswith("dead_letters")]
        for n in (3, 4):
            bench.create(f"poison {n}", f"c{n}", f"d{n}", f"e{n}")
            bench.step()
    told = [line for line in lines if line["event"].startswith("dead_letters")]
    assert [(line["event"], line["jobs"]) for line in told] == [("dead_letters_above_limit", 3)]


def test_a_database_that_does_not_answer_the_question_costs_no_verdict(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(embed_dead_letter_alert=1)

    def away() -> None:
        raise TemporarilyUnavailable("away")

    bench.queue.dead.crossing = away  # type: ignore[method-assign]
    bench.provider.reply_to_text("poison", error(400, BAD))
    bench.create("a", "poison")
    bench.step()
    assert (bench.job("a")["status"], bench.job("poison")["status"]) == ("completed", "failed")
