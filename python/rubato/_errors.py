class RubatoError(RuntimeError):
    """Something that Rubato cannot do; the message says what to do instead."""


class RefusedError(RubatoError):
    """A program that cannot be trained elastically as it is."""
