"""The checker of annotations in the tests: beartype, for which an int is also a float, as for the type checker."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
