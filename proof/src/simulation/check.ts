import type { CommittedEvent, Ledger } from './world/ledger.ts'
import type { SimulatedSystem } from './world/simulated-system.ts'

/** Runs the checks that are only possible after the end of the history. Adds violations to the ledger, beside those found during the history. */
export async function checkHistory(system: SimulatedSystem): Promise<void> {
  const { ledger, plan, database } = system
  checkEffects(ledger, plan.shape.billing > 0 ? ['orders', 'billing'] : ['orders'])
  checkRecords(ledger)
  checkPublishes(ledger)
  if (plan.shape.order === 'perKey') checkOrder(ledger)
  const { records } = await database.outbox.list({ state: 'parked' }, { limit: Number.MAX_SAFE_INTEGER })
  for (const { id, message, lastError } of records) {
    if (ledger.committed.get(message.id ?? '')?.behaviour === 'unpublishable') continue
    ledger.violate('parkedWithReason', `Record ${id} (${message.subject}) is parked: ${lastError}`)
  }
}

function checkEffects(ledger: Ledger, services: readonly string[]): void {
  for (const [command, { behaviour }] of ledger.sent) {
    for (const service of services) {
      const effect = `${service} ${command}`
      const times = ledger.effects.get(effect) ?? 0
      const expected = behaviour === 'poison' ? 0 : 1
      if (times !== expected) ledger.violate('appliedOnce', `${effect} (${behaviour}) was applied ${times} times, not ${expected}.`)
    }
  }
}

function checkRecords(ledger: Ledger): void {
  const { effects, recorded } = ledger
  for (const effect of recorded)
    if (!effects.has(effect)) ledger.violate('recordedWithEffect', `${effect} is recorded and was not applied.`)
  for (const effect of effects.keys())
    if (!recorded.has(effect)) ledger.violate('recordedWithEffect', `${effect} was applied and is not recorded.`)
}

function checkPublishes(ledger: Ledger): void {
  const times = new Map<string, number>()
  for (const id of ledger.published) times.set(id, (times.get(id) ?? 0) + 1)
  for (const [id, event] of ledger.committed) {
    if (event.behaviour === 'unpublishable') continue
    const count = times.get(id) ?? 0
    if (count === 0) ledger.violate('publishedAll', `Event ${event.position} of ${event.effect} was never published.`)
    const excuses = ledger.excusesOf(id)
    if (count <= 1 + excuses) continue
    ledger.violate(
      'duplicatesExplained',
      `Event ${event.position} of ${event.effect} was published ${count} times; the faults explain ${1 + excuses}.`,
    )
  }
}

function checkOrder(ledger: Ledger): void {
  const latest = new Map<string, CommittedEvent>()
  for (const id of new Set(ledger.published)) {
    const event = ledger.committed.get(id)
    if (event === undefined) continue
    const before = latest.get(event.key)
    if (before !== undefined && before.position > event.position) {
      ledger.violate('keyOrder', `Event ${event.position} of key ${event.key} was published after event ${before.position}.`)
    }
    latest.set(event.key, event)
  }
}
