"""Checksums of PostgreSQL's pages: on or off, chosen when the data directory is made."""

from replayer.factors import Scope, ServerSetting

SCOPE: Scope = "table"
SETTING = ServerSetting("data_checksums", levels=("on", "off"))
