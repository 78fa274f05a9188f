import type { RabbitmqMessage } from './client.ts'

/**
 * How often the message was delivered, this time included, if RabbitMQ knows: quorum queues count, classic queues only tell the first
 * delivery from later ones. A message that was rejected into a dead-letter exchange and came back to this queue has its rounds counted.
 */
export function deliveryCount({ fields, properties }: RabbitmqMessage, queue: string): number | undefined {
  const counted = properties.headers?.['x-delivery-count']
  if (typeof counted === 'number') return counted + 1
  return fields.redelivered ? undefined : 1 + roundsThrough(queue, properties.headers?.['x-death'])
}

function roundsThrough(queue: string, deaths: unknown): number {
  if (!Array.isArray(deaths)) return 0
  let rounds = 0
  for (const death of deaths) {
    // Other reasons, such as its time to live, do not say that anybody had it.
    if (death?.queue === queue && death.reason === 'rejected' && typeof death.count === 'number') rounds += death.count
  }
  return rounds
}
