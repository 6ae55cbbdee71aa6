"""The checker of annotations in the tests: beartype, for which an int is also a float, as for the type checker.

It looks at the first item of a sequence, not at a random one: hypothesis wants strategies without hidden randomness.
"""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True, is_random=False))
