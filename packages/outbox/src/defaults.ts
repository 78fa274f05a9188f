/** The relay's defaults, in one place. Durations are milliseconds. */
export const relayDefaults = {
  /** Between polls that find nothing: it doubles from the first to the second. */
  pollInterval: 500,
  maxPollInterval: 5000,
  /** The second, where the store tells of every commit. */
  notifiedPollInterval: 12_000,
  batchSize: 500,
  lease: 30_000,
  maxAttempts: 10,
  backoff: { initial: 1000, factor: 2, max: 60_000, jitter: 0.2 },
  publishTimeout: 10_000,
  /** As the router's: shorter than the half minute that orchestrators wait before they kill. */
  shutdownTimeout: 25_000,
  statsInterval: 60_000,
  cleanup: { keepPublished: 86_400_000, interval: 60_000, batchSize: 1000 },
} as const
