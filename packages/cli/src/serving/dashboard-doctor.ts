import { silentLogger } from '@ackord/core'
import type { DoctorCheck } from '@ackord/dashboard'
import { openBroker } from '../brokers/open-broker.ts'
import type { Check } from '../doctor/check.ts'
import { type BrokerFindings, connectionProblem, destinationProblem, inspectBroker, inspectStore } from '../doctor/inspect.ts'
import { explainFailure } from '../output/explain-failure.ts'
import type { Session } from '../session.ts'
import type { Store } from '../stores/store.ts'

/**
 * The checks of `ackord doctor` for all stores and brokers of a dashboard. What cannot be used is a finding and hides no others: that is when somebody looks. Brokers are connected
 * to anew, because a connection that was opened earlier says nothing about the next one.
 */
export async function diagnose(
  { output, secrets }: Pick<Session, 'output' | 'secrets'>,
  stores: ReadonlyMap<string, Store>,
  brokers: ReadonlyMap<string, string>,
): Promise<readonly DoctorCheck[]> {
  const shown = (of: 'store' | 'broker', name: string, checks: readonly Check[]) =>
    checks.map(
      ({ name: title, state, text, statements = [] }): DoctorCheck => ({
        of,
        store: name,
        title,
        result: results[state],
        text: output.masked([text, ...statements].join('\n')),
      }),
    )

  const inspectedStores = await Promise.all(
    Array.from(stores, async ([name, store]) => {
      const found = await inspectStore(store).catch((error: unknown) => unusable(error, store.address))
      return { name, ...found }
    }),
  )
  const destinations = new Set(inspectedStores.flatMap((store) => store.destinations))
  const inspectedBrokers = await Promise.all(
    Array.from(brokers, async ([name, url]) => {
      const inspect = async (): Promise<BrokerFindings> => {
        await using broker = await openBroker(url, { option: '--broker', logger: silentLogger, secrets })
        return await inspectBroker(broker, destinations)
      }
      return { name, ...(await inspect().catch((error: unknown) => unusable(error))) }
    }),
  )
  // Relays may publish to several brokers, each of which has some of the destinations.
  const missing = [...destinations].filter((destination) => inspectedBrokers.every(({ problems }) => problems?.has(destination)))
  return [
    ...inspectedStores.flatMap(({ name, checks }) => shown('store', name, checks)),
    ...inspectedBrokers.flatMap(({ name, checks, problems }) =>
      shown('broker', name, [...checks, ...missing.map((each) => destinationProblem(problems?.get(each) ?? ''))]),
    ),
  ]
}

interface Unusable {
  readonly checks: readonly Check[]
  readonly destinations: readonly []
  /** Unknown. */
  readonly problems: undefined
}

function unusable(error: unknown, address?: string): Unusable {
  return { checks: [connectionProblem(explainFailure(error, address))], destinations: [], problems: undefined }
}

const results: Readonly<Record<Check['state'], DoctorCheck['result']>> = {
  ok: 'ok',
  warning: 'warning',
  problem: 'failed',
  unknown: 'unknown',
}
