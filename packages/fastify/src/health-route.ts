import { redactDestination } from '@ackord/core/internal'
import type { Service, ServiceHealth } from '@ackord/outbox/service'
import type { FastifyInstance } from 'fastify'

/** `GET path`: 200 if the service is healthy, else 503. Without the texts of errors, because the route is public. */
export function healthRoute(app: FastifyInstance, path: string, service: Pick<Service, 'health'>): void {
  // A probe that asks every second would fill the log.
  app.get(path, { logLevel: 'warn' }, async (_request, reply) => {
    const health = service.health()
    return await reply
      .code(health.healthy ? 200 : 503)
      .header('cache-control', 'no-store')
      .send(shown(health))
  })
}

function shown({ state, healthy, router, relay, error }: ServiceHealth): object {
  return {
    state,
    healthy,
    ...(router === undefined
      ? {}
      : { router: { state: router.state, inFlight: router.inFlight, paused: router.paused, failed: error !== undefined } }),
    ...(relay === undefined
      ? {}
      : { relay: { state: relay.state, store: relay.store, downDestinations: relay.downDestinations.map(redactDestination) } }),
  }
}
