/** A worker whose last heartbeat is older than this is gone. */
export const workerTtlMs = 15_000;
/** Queues and agents that no worker has announced for so long no longer exist. Longer than any deploy or outage. */
export const announcedTtlMs = 7 * 86_400_000;
