"""Errors whose message is all that the user needs to see."""


class InputError(ValueError):
    """A user's mistake. The message names what is wrong, where, and what to do.

    The command line prints the message alone, without a traceback, and exits with code 2.
    """


class RunError(RuntimeError):
    """Something outside of the program broke a run off, e.g. another process of it died.

    The command line prints the message alone and exits with code 1.
    """
