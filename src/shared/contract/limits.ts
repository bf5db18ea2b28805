/** What a provider allows for one credential and model. Absent: not known, learnt from its answers. */
export interface ProviderLimits {
  readonly requestsPerMinute?: number;
  readonly tokensPerMinute?: number;
  readonly maxInFlight?: number;
  /**
   * Over how many milliseconds it counts; a minute unless given. Providers that enforce their limits more closely, for
   * instance per second or per ten seconds, allow in that time the same share of what they allow per minute.
   */
  readonly windowMs?: number;
}

/** What a provider reports about its limits with an answer or a refusal. Times are milliseconds from then. */
export interface RateLimitReport {
  readonly requests?: RateLimitWindow;
  readonly tokens?: RateLimitWindow;
}
export interface RateLimitWindow {
  readonly limit?: number;
  readonly remaining?: number;
  readonly resetMs?: number;
}
