/** The relay's defaults, in one place. Durations are milliseconds. */
export const relayDefaults = {
  /** Between polls that find nothing: it doubles from the first to the second. */
  pollInterval: 500,
  maxPollInterval: 5000,
  batchSize: 500,
  lease: 30_000,
  maxAttempts: 10,
  backoff: { initial: 1000, factor: 2, max: 60_000, jitter: 0.2 },
  publishTimeout: 10_000,
} as const
