"""A quorum of controllers in processes of their own, beside others that do the same."""
