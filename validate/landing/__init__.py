"""Whether upstream made a patch unnecessary: three signs side by side, never one alone.

`signals` joins patch-id and hunks (series.landing) with the drop-check (`drop_check`) and what
upstream says about the pull request; `retire` writes the record when a person asks for it.
"""
