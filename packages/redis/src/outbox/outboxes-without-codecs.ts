/** Stores of events as plain data. A service with codecs must not be given one: what is appended to it directly would not be encrypted. */
const outboxes = new WeakSet<object>()

export function addOutboxWithoutCodecs<Outbox extends object>(outbox: Outbox): Outbox {
  outboxes.add(outbox)
  return outbox
}

/** Whether it was created here, and without codecs. */
export function isWithoutCodecs(outbox: object): boolean {
  return outboxes.has(outbox)
}
