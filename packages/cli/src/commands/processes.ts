import { systemRuntime } from '@ackord/core'
import type { ProcessAdmin, ProcessQuery, ProcessRecord } from '@ackord/outbox'
import type { Command } from 'commander'
import { confirm } from '../output/confirm.ts'
import { CommandError, exitCode } from '../output/errors.ts'
import type { Column } from '../output/table.ts'
import { instant, printable } from '../output/text.ts'
import type { Execute } from '../session.ts'
import { formatDuration } from '../settings/duration.ts'
import { newCommand, parseInteger, parsePositiveDuration, storeCommand } from '../settings/settings.ts'
import { openStoreOf, type StoreOptions } from '../stores/open-store.ts'

interface ListOptions extends StoreOptions {
  readonly process?: string | undefined
  readonly finished?: boolean | undefined
  readonly idleFor?: number | undefined
  readonly limit?: number | undefined
}

interface ShowOptions extends StoreOptions {
  readonly data?: boolean | undefined
}

interface EndOptions extends StoreOptions {
  readonly keep?: number | undefined
  readonly yes?: boolean | undefined
}

const week = 7 * 86_400_000
const pageSize = 200

export function processesCommand(execute: Execute): Command {
  return newCommand('processes')
    .description('Lists and shows the instances of processes, and ends one that nothing will ever complete.')
    .addCommand(listCommand(execute))
    .addCommand(showCommand(execute))
    .addCommand(endCommand(execute))
}

function listCommand(execute: Execute): Command {
  return storeCommand('list')
    .description(
      'Lists the running instances, or the finished ones that are remembered. Reads all instances of the store until the limit is reached.',
    )
    .option('--process <name>', 'only instances of this process')
    .option('--finished', 'the finished instances instead of the running ones')
    .option('--idle-for <duration>', 'only instances without an event for this long, such as 1d', parsePositiveDuration)
    .option('--limit <count>', 'the maximum number of instances (default: 50)', parseInteger(1, 10_000))
    .action(
      execute(async (session, options: ListOptions) => {
        const { output, signal } = session
        const { process, finished = false, idleFor, limit = 50 } = options
        await using store = await openStoreOf(options, session)
        const query: ProcessQuery = { process, phase: finished ? 'finished' : 'running', idleFor, limit: pageSize }
        const { found, isComplete } = await listed(store.processes(), query, limit, signal)
        for (const one of found) output.object(processObject(one))
        const which = finished ? 'finished' : 'running'
        if (found.length === 0) output.line(`No ${which} instances.`)
        else for (const line of output.table(columns, found)) output.line(line)
        if (!isComplete) output.line(`\nThere are more. Raise --limit.`)
        return exitCode.ok
      }),
    )
}

function showCommand(execute: Execute): Command {
  return storeCommand('show')
    .description('Shows one instance.')
    .argument('<process>', 'the name of the process')
    .argument('<id>', 'the id of the instance')
    .option('--data', 'include the state, which may be confidential')
    .action(
      execute(async (session, options: ShowOptions, [process = '', id = '']) => {
        const { output } = session
        await using store = await openStoreOf(options, session)
        const found = await store.processes().get({ process, id })
        if (found === undefined) throw notFound(process, id, store.address)
        const fields = processObject(found)
        output.object(options.data === true ? { ...fields, state: found.state } : fields)
        for (const [name, value] of Object.entries(fields)) {
          if (value !== undefined) output.line(`${output.colours.bold(name.padEnd(14))}${printable(String(value))}`)
        }
        if (options.data === true) output.line(`${output.colours.bold('state')}\n${printable(found.state)}`)
        return exitCode.ok
      }),
    )
}

function endCommand(execute: Execute): Command {
  return storeCommand('end')
    .description(
      'Finishes an instance as it is: later events and timeouts of it are ignored. None of its steps runs, so nothing is compensated.',
    )
    .argument('<process>', 'the name of the process')
    .argument('<id>', 'the id of the instance')
    .option('--keep <duration>', 'how long it is remembered (default: 7d)', parsePositiveDuration)
    .option('--yes', 'do not ask; required without a terminal')
    .action(
      execute(async (session, options: EndOptions, [process = '', id = '']) => {
        const { output, signal } = session
        const { keep = week, yes } = options
        await using store = await openStoreOf(options, session)
        const processes = store.processes()
        const found = await processes.get({ process, id })
        if (found === undefined) throw notFound(process, id, store.address)
        const name = `'${printable(process)}' of '${printable(id)}'`
        if (found.phase === 'running') {
          await confirm(output, `The process ${name} ends as it is, and ignores all further events. Nothing is compensated.`, {
            yes,
            signal,
          })
        }
        const ended = found.phase === 'running' && (await processes.end({ process, id }, { keep }))
        output.object({ ended })
        output.line(ended ? `The process ${name} has ended.` : `The process ${name} had finished already.`)
        return ended ? exitCode.ok : exitCode.failed
      }),
    )
}

/** As many as the limit allows. */
async function listed(
  processes: ProcessAdmin,
  query: ProcessQuery,
  limit: number,
  signal: AbortSignal,
): Promise<{ readonly found: readonly ProcessRecord[]; readonly isComplete: boolean }> {
  const found: ProcessRecord[] = []
  let after: string | undefined
  do {
    signal.throwIfAborted()
    const page = await processes.list({ ...query, after })
    found.push(...page.processes)
    after = page.next
  } while (after !== undefined && found.length < limit)
  return { found: found.slice(0, limit), isComplete: after === undefined && found.length <= limit }
}

function notFound(process: string, id: string, address: string): CommandError {
  return new CommandError(`There is no instance of the process '${printable(process)}' with the id '${printable(id)}' in ${address}.`, {
    exitCode: exitCode.failed,
    hint: '`ackord processes list` shows the running ones. A finished one is forgotten after a time.',
  })
}

function ageOf({ changedAt }: ProcessRecord): number {
  // biome-ignore lint/plugin: for people; the instant is by the clock of the store, which may differ a little.
  return Math.max(0, Math.round(systemRuntime.now() - changedAt))
}

function processObject(record: ProcessRecord): Record<string, unknown> {
  const { process, id, phase, version, stateVersion, timeouts, startedAt, changedAt, expiresAt } = record
  return {
    process,
    id,
    phase,
    version,
    state_version: stateVersion,
    timeouts: Object.keys(timeouts),
    started_at: instant(startedAt),
    changed_at: instant(changedAt),
    idle_ms: ageOf(record),
    remembered_until: instant(expiresAt),
  }
}

const columns: readonly Column<ProcessRecord>[] = [
  { heading: 'PROCESS', cell: ({ process }) => process },
  { heading: 'ID', cell: ({ id }) => id, cut: { rank: 1, min: 8 } },
  { heading: 'EVENTS', cell: ({ version }) => version },
  { heading: 'IDLE', cell: (record) => formatDuration(ageOf(record)) },
  { heading: 'WAITS FOR TIMEOUTS', cell: ({ timeouts }) => Object.keys(timeouts).join(', '), omit: 1 },
]
