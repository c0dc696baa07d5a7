"""How long a pause may be. A module of its own: the command line's help needs no more than this."""

# Whoever means longer than a year means "for good", which is no pause; and far beyond it no date has a name.
LONGEST_S = 365 * 86_400


def allowed(seconds: float) -> float:
    """The same. Raises `ValueError` for what is no time between nothing and a year."""
    if not 0 <= seconds <= LONGEST_S:  # false for what is no number, too
        raise ValueError(f"a pause of {seconds} s: 0 to {LONGEST_S} (a year) are allowed")
    return seconds


def meant(value: object) -> float:
    """The seconds that a person means, by a number or by its words. Raises `ValueError` for what is no time, or none
    of a pause: more than nothing, a year at most."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is no number of seconds")
    try:
        seconds = allowed(float(value))
    except OverflowError as error:
        raise ValueError(str(error)) from error
    if seconds == 0:
        raise ValueError("a pause of nothing")
    return seconds
