import { systemRuntime } from '@ackord/core'
import { withTimeLimit } from '@ackord/core/internal'
import type { Broker } from '../brokers/broker.ts'
import { CommandError, exitCode } from '../output/errors.ts'
import { explainFailure } from '../output/explain-failure.ts'
import type { OutboxChoices, Store } from '../stores/store.ts'
import { type Check, check } from './check.ts'
import { checkStore, type StoreFindings } from './store-checks.ts'

/** Milliseconds that a server has to answer. A client that reopens its connection would wait for a server that is down. */
const answerTimeout = 6000

/** The connection of a store, and everything behind it. Rejects if it cannot be used. */
export async function inspectStore(store: Store, choices: Pick<OutboxChoices, 'order' | 'mode'> = {}): Promise<StoreFindings> {
  await answered(store.address, () => store.connect())
  const { checks, destinations } = await checkStore(store, choices)
  return { checks: [check('connection', 'ok', `${store.address} answers.`), ...checks], destinations }
}

export interface BrokerFindings {
  readonly checks: readonly Check[]
  /** Why publishing would fail, by destination. */
  readonly problems: ReadonlyMap<string, string>
}

/** A broker that was just connected to. Rejects if it cannot be used. */
export async function inspectBroker(broker: Broker, destinations: Iterable<string>): Promise<BrokerFindings> {
  const problems = new Map<string, string>()
  for (const destination of destinations) {
    const problem = await answered(broker.address, async () => await broker.problemOf?.(destination))
    if (problem !== undefined) problems.set(destination, problem)
  }
  return { checks: [check('connection', 'ok', `${broker.address} answers.`)], problems }
}

/** The finding for a server that cannot be used. */
export function connectionProblem({ message, hint = '' }: CommandError): Check {
  return check('connection', 'problem', `${message} ${hint}`.trim())
}

export function destinationProblem(problem: string): Check {
  return check('destination', 'problem', problem)
}

async function answered<T>(address: string, ask: () => Promise<T>): Promise<T> {
  const late = () =>
    new CommandError(`Cannot use ${address}: the server has not answered within ${answerTimeout / 1000} seconds.`, {
      exitCode: exitCode.unreachable,
      hint: 'Is the server running, and are host and port correct?',
    })
  try {
    return await withTimeLimit(systemRuntime, answerTimeout, late, ask)
  } catch (error) {
    throw explainFailure(error, address)
  }
}
