export const postgresUrl: string = process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'
export const rabbitmqUrl: string = process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672'

/** What all processes of a run agree on. Removed at the end; and before, in case a run was killed. */
export const schema = 'ackord_proof_load'
export const queues = { commands: `${schema}.commands`, events: `${schema}.events`, dead: `${schema}.dead` } as const

/** A message that fails at this delivery is a dead letter. */
export const maxDeliveries = 3

/** How often the handler of a message fails: of every hundred messages one; most of those once, every tenth of them always. */
export function failuresOf(index: number): number {
  if (index % 100 !== 50) return 0
  return index % 1000 === 550 ? Number.POSITIVE_INFINITY : 1
}

/** Every tenth message is sent twice. */
export function isSentTwice(index: number): boolean {
  return index % 10 === 7
}
