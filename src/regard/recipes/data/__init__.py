"""Data without a hub: the user's own files in the usual layouts, archives of registry packages, and `hub:NAME` where there is one."""
