import type { Context, Message } from '@ackord/core'
import { placed } from './delivery.ts'
import type { TransactionWorld } from './transaction-world.ts'

/** A handler whose effect can be counted: each call that commits leaves a key and an event of its own. */
export function counting(
  world: TransactionWorld,
  key = 'call',
): {
  readonly calls: () => number
  handle(message: Message, context: Context): Promise<Message[]>
} {
  let calls = 0
  return {
    calls: () => calls,
    async handle(_, context) {
      calls += 1
      const call = calls
      await world.write(context, `${key} ${call}`, 'done')
      return [placed(call)]
    },
  }
}

/** How many calls of a counting handler were committed. */
export async function committedCalls(world: TransactionWorld, calls: number, key = 'call'): Promise<number> {
  let committed = 0
  for (let call = 1; call <= calls; call += 1) if ((await world.read(`${key} ${call}`)) === 'done') committed += 1
  return committed
}
