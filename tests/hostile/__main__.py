"""``python -m tests.hostile``: the campaign. Its processes import this file too, so it is short."""

if __name__ == "__main__":
    import sys

    from tests.hostile.campaign import main

    sys.exit(main())
