"""Experiments: cells that can be run anywhere, in any order, once; the paper's figures are tables of them."""
