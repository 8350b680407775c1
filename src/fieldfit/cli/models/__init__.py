"""The models of `fieldfit fit` and `fieldfit plan`: one file each, with `register(fit, plan)`."""
