/* Telling systemd how we are (sd_notify(3)): a datagram to the socket that NOTIFY_SOCKET names. Without it, nothing. */
#ifndef CDL_SERVER_NOTIFY_H
#define CDL_SERVER_NOTIFY_H

/* `state` as sd_notify takes it: "READY=1", "STOPPING=1", "STATUS=…". */
void cdl_notify(const char *state);

#endif
