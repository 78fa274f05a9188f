import type { RabbitmqTopology } from './topology.ts'

/**
 * A message waits in the first queue whose limit is not shorter than its delay. RabbitMQ expires messages only at the head of a queue, so a message may wait as
 * long as the one before it: with these limits at most ten times as long as its own delay.
 */
const levels = [
  { name: '1s', limit: 1000 },
  { name: '10s', limit: 10_000 },
  { name: '1m', limit: 60_000 },
  { name: 'long', limit: Infinity },
] as const

/** The exchange through which messages return from the retry queues of a queue. */
export function retryExchange(queue: string): string {
  return `${queue}.ackord.retry`
}

/** The queue in which a message waits for so many milliseconds. */
export function retryQueue(queue: string, delay: number): string {
  const level = levels.find(({ limit }) => delay <= limit) ?? levels[3]
  return `${queue}.ackord.retry.${level.name}`
}

/**
 * The retry queues of a queue. They are quorum queues, because only these pass expired messages on with confirmation ('at-least-once'); a classic queue may lose
 * a message in between.
 */
export function retryTopology(queue: string): RabbitmqTopology {
  const exchange = retryExchange(queue)
  const declaration = {
    type: 'quorum',
    arguments: {
      'x-dead-letter-exchange': exchange,
      'x-dead-letter-routing-key': queue,
      'x-dead-letter-strategy': 'at-least-once',
      'x-overflow': 'reject-publish',
    },
  } as const
  return {
    exchanges: { [exchange]: { type: 'direct' } },
    queues: Object.fromEntries(levels.map(({ name }) => [`${exchange}.${name}`, declaration])),
    bindings: [{ exchange, queue, routingKey: queue }],
  }
}
