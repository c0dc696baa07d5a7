"""Which texts can be written down in UTF-8. A module of its own: the command line asks before it imports the rest."""


def is_well_formed(text: str) -> bool:
    """False when halves of characters stand in it: so Python hands over bytes that were no UTF-8, and so JSON may spell
    them. Drivers, providers and files break on them, each in its own way."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
