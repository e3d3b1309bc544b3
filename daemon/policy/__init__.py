"""The acting and the shadow policy: called, timed, switched, remembered."""
