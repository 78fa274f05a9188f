import type { OutboxRecord } from '@ackord/outbox'
import type { Output } from './output.ts'

/** A record in JSON. Its payload is shown only to who asks for it. The error is what a driver said. */
export function recordObject(output: Output, record: OutboxRecord): Record<string, unknown> {
  const { message } = record
  return {
    id: record.id,
    state: record.state,
    destination: record.destination,
    message_id: message.id,
    type: message.type,
    source: message.source,
    key: message.partitionKey,
    attempts: record.attempts,
    created_at: instant(record.createdAt),
    available_at: instant(record.availableAt),
    leased_until: instant(record.leasedUntil),
    parked_at: instant(record.parkedAt),
    published_at: instant(record.publishedAt),
    last_error: record.lastError === undefined ? undefined : output.masked(record.lastError),
    bytes: message.data.byteLength,
  }
}

export function recordTable(output: Output, records: readonly OutboxRecord[]): void {
  output.table(
    ['ID', 'STATE', 'DESTINATION', 'TYPE', 'KEY', 'ATTEMPTS', 'CREATED', 'LAST ERROR'],
    records.map(({ id, state, destination, message, attempts, createdAt, lastError }) => [
      id,
      state,
      destination,
      message.type ?? '',
      message.partitionKey ?? '',
      attempts,
      instant(createdAt) ?? '',
      shortened(output.masked(lastError ?? '')),
    ]),
  )
}

function instant(milliseconds: number | undefined): string | undefined {
  return milliseconds === undefined ? undefined : new Date(milliseconds).toISOString()
}

function shortened(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ')
  return line.length > 80 ? `${line.slice(0, 79)}…` : line
}
