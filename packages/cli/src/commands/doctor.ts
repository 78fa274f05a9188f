import { silentLogger } from '@ackord/core'
import type { Command } from 'commander'
import { openBroker } from '../brokers/open-broker.ts'
import type { Check } from '../doctor/check.ts'
import { connectionProblem, destinationProblem, inspectBroker, inspectStore } from '../doctor/inspect.ts'
import { type CommandError, type ExitCode, exitCode, usageError } from '../output/errors.ts'
import { explainFailure } from '../output/explain-failure.ts'
import type { Output } from '../output/output.ts'
import type { Execute, Session } from '../session.ts'
import { modeOption, parseChoice, setting, storeCommand } from '../settings/settings.ts'
import { checkMode, openStoreOf, type StoreOptions } from '../stores/open-store.ts'
import type { OutboxChoices } from '../stores/store.ts'

interface DoctorOptions extends StoreOptions {
  readonly broker?: string | undefined
  readonly order?: OutboxChoices['order']
  readonly mode?: OutboxChoices['mode']
  readonly strict?: boolean | undefined
  readonly allowUnchecked?: boolean | undefined
}

type Finding = Check & { readonly of: 'store' | 'broker' }

export function doctorCommand(execute: Execute): Command {
  return storeCommand('doctor')
    .description(
      'Checks the store and the broker: connection, schema, clock, privileges, durability; and says how to fix problems. Changes nothing.',
    )
    .addOption(
      setting('--broker <url>', 'amqp://, amqp10://, nats://, kafka://, mqtt://, redis://, redis+cluster://, sqs:, sns: or eventbridge:'),
    )
    .addOption(
      setting('--order <order>', 'none or perKey, as in the writing services: perKey needs more privileges (SQL; default: none)', {
        parse: parseChoice('none', 'perKey'),
      }),
    )
    .addOption(
      modeOption('table or log, as in the writing services: log needs more privileges (PostgreSQL; default: the mode that has been used)'),
    )
    .option('--strict', 'also fail on warnings')
    .option('--allow-unchecked', 'do not fail on what could not be checked')
    .action(execute(diagnose))
}

async function diagnose(session: Session, options: DoctorOptions): Promise<ExitCode> {
  if (options.store === undefined && options.broker === undefined) {
    throw usageError('--store and --broker are both missing.', 'Pass at least one of them.')
  }
  const findings: Finding[] = []
  const failures: CommandError[] = []
  const fail = (of: Finding['of'], error: unknown) => {
    const failure = explainFailure(error)
    // An invalid URL or option is reported as in all other commands.
    if (failure.exitCode === exitCode.usage) throw error
    failures.push(failure)
    findings.push({ of, ...connectionProblem(failure) })
  }
  const destinations =
    options.store === undefined ? [] : await findInStore(session, options, findings).catch((error: unknown) => fail('store', error))
  if (options.broker !== undefined) {
    await findInBroker(session, options.broker, destinations ?? [], findings).catch((error: unknown) => fail('broker', error))
  }
  show(session.output, findings, session)
  if (failures[0] !== undefined) return failures[0].exitCode
  const failing: Record<Check['state'], boolean> = {
    ok: false,
    warning: options.strict === true,
    // A check without a result says nothing, least of all that everything is in order.
    unknown: options.allowUnchecked !== true,
    problem: true,
  }
  return findings.some(({ state }) => failing[state]) ? exitCode.failed : exitCode.ok
}

async function findInStore(session: Session, options: DoctorOptions, findings: Finding[]): Promise<readonly string[]> {
  const { order, mode } = options
  checkMode([options.store ?? ''], { mode, order })
  await using store = await openStoreOf(options, session)
  const { checks, destinations } = await inspectStore(store, { order, mode })
  findings.push(...checks.map((each): Finding => ({ of: 'store', ...each })))
  return destinations
}

async function findInBroker({ secrets }: Session, url: string, destinations: readonly string[], findings: Finding[]): Promise<void> {
  await using broker = await openBroker(url, { option: '--broker', logger: silentLogger, secrets })
  const { checks, problems } = await inspectBroker(broker, destinations)
  for (const each of [...checks, ...Array.from(problems.values(), destinationProblem)]) findings.push({ of: 'broker', ...each })
}

function show(output: Output, findings: readonly Finding[], { secrets }: Session): void {
  const { green, yellow, red, dim } = output.colours
  const marks = { ok: green('✓'), warning: yellow('!'), problem: red('✗'), unknown: dim('?') }
  const safe = findings.map((finding) => ({ ...finding, text: secrets.mask(finding.text) }))
  output.object({ checks: safe })
  for (const { of, name, state, text, statements = [] } of safe) {
    output.line(`${marks[state]} ${`${of} ${name}`.padEnd(24)} ${text}`)
    for (const statement of statements) output.line(`    ${statement}`)
  }
}
