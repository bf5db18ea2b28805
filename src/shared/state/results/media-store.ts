/**
 * Generated files of a tenant, named by their SHA-256 and kept as long as results. Kept in Redis by
 * `state/results/redis-media.ts`, in memory by `local/stores/memory-media.ts`; both pass `test/contract/media-store.ts`.
 */
export interface MediaStore {
  /**
   * Keeps the bytes and answers their SHA-256 in hex. The same bytes again cost nothing but a longer life. Throws
   * `payload_too_large` above 32 MiB and `queue_unavailable` when the store cannot be reached.
   */
  put(tenant: string, bytes: Uint8Array, mediaType: string): Promise<string>;
}
