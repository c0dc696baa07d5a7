"""How long a pause may be. A module of its own: the command line's help needs no more than this."""

# Whoever means longer than a year means "for good", which is no pause; and far beyond it no date has a name.
LONGEST_S = 365 * 86_400


def allowed(seconds: float) -> float:
    """The same. Raises `ValueError` for what is no time between nothing and a year."""
    if not 0 <= seconds <= LONGEST_S:  # false for what is no number, too
        raise ValueError(f"a pause of {seconds} s: 0 to {LONGEST_S} (a year) are allowed")
    return seconds
