import { AckordError, type Runtime } from '@ackord/core'
import type { RedisPort, Reply } from './port.ts'

/** The port, with calls that reject when there is no answer in time. What was asked may happen all the same, and later. */
export function withDeadline<Port extends RedisPort>(port: Port, deadline: number, runtime: Runtime): Port {
  function within(name: string, answer: Promise<Reply>): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const timer = runtime.setTimeout(() => reject(unanswered(name, deadline)), deadline)
      answer.then(
        (reply) => {
          timer.cancel()
          resolve(reply)
        },
        (error: unknown) => {
          timer.cancel()
          reject(error)
        },
      )
    })
  }

  return {
    ...port,
    send: (command, options) => within(command.name, port.send(command, options)),
    evaluate: (script, keys, args, options) => within('a script', port.evaluate(script, keys, args, options)),
  }
}

function unanswered(name: string, deadline: number): AckordError {
  return new AckordError(
    'ACKORD_REDIS_UNANSWERED',
    `Redis did not answer ${name} within ${deadline} ms. Whether it was carried out is not known. Look at the connection, or give it a longer deadline.`,
  )
}
