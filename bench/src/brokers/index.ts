import { contestFigures } from './contest.ts'
import { natsContest } from './nats.ts'
import { rabbitmqContest } from './rabbitmq.ts'
import { redisStreamsContest } from './redis-streams.ts'

/** Compares confirmed publishes and acked consumption through the library with the client alone, with the same messages and batching. */
export async function brokers(): Promise<Record<string, unknown>> {
  return {
    ...(await contestFigures('rabbitmq', await rabbitmqContest())),
    ...(await contestFigures('nats', await natsContest())),
    ...(await contestFigures('redis', await redisStreamsContest())),
  }
}
