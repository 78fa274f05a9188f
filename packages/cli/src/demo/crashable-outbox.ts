import type { OutboxStore } from '@ackord/outbox'
import type { Lifeline } from './lifeline.ts'

/** The outbox, of which a relay gets nothing and to which it can tell nothing once the line is cut: its leases have to run out. */
export function crashableOutbox(outbox: OutboxStore, lifeline: Lifeline): OutboxStore {
  const guarded =
    <Given extends unknown[], Result>(call: (...given: Given) => Promise<Result>) =>
    async (...given: Given): Promise<Result> => {
      lifeline.check()
      return await call(...given)
    }
  const { attach, leave, wakeUps } = outbox
  return {
    capabilities: outbox.capabilities,
    claim: guarded(outbox.claim),
    renew: guarded(outbox.renew),
    release: guarded(outbox.release),
    settle: guarded(async (outcomes) => {
      if (outcomes.some(({ result }) => result === 'published')) lifeline.published()
      lifeline.check()
      return await outbox.settle(outcomes)
    }),
    ...(attach !== undefined && { attach }),
    ...(leave !== undefined && { leave: guarded(leave) }),
    ...(wakeUps !== undefined && { wakeUps }),
  }
}
