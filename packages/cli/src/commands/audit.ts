import type { AuditEntry } from '@ackord/outbox'
import type { Command } from 'commander'
import { exitCode } from '../output/errors.ts'
import type { Column } from '../output/table.ts'
import { instant, onOneLine, toSeconds } from '../output/text.ts'
import type { Execute } from '../session.ts'
import { partOf } from '../settings/operator.ts'
import { parseInteger, storeCommand } from '../settings/settings.ts'
import { openStoreOf, type StoreOptions } from '../stores/open-store.ts'

interface AuditOptions extends StoreOptions {
  readonly limit: number
}

export function auditCommand(execute: Execute): Command {
  return storeCommand('audit')
    .description('Lists what operators have done in the last 90 days, the latest first: re-arm, park, discard, pause and resume.')
    .option('--limit <count>', 'maximum number of entries', parseInteger(1, 10_000), 50)
    .action(
      execute(async (session, options: AuditOptions) => {
        const { output } = session
        await using store = await openStoreOf(options, session)
        const entries = await partOf(store.outbox({ logger: output.logger() }), 'audit')({ limit: options.limit })
        for (const { at, ...entry } of entries) output.object({ ...entry, at: instant(at) })
        if (output.json) return exitCode.ok
        if (entries.length === 0) output.line('No action of an operator was recorded.')
        else for (const line of output.table(columnsOf(output.terminal), entries)) output.line(line)
        return exitCode.ok
      }),
    )
}

function columnsOf(terminal: boolean): readonly Column<AuditEntry>[] {
  return [
    { heading: 'AT', cell: ({ at }) => (terminal ? toSeconds(at) : (instant(at) ?? '')) },
    { heading: 'BY', cell: ({ by = '-' }) => by, cut: { rank: 3, min: 8 } },
    { heading: 'ACTION', cell: ({ action }) => action },
    { heading: 'RECORDS', cell: recordsOf },
    { heading: 'WHAT', cell: ({ what }) => onOneLine(what), cut: { rank: 1, min: 10 } },
    { heading: 'REASON', cell: ({ reason = '', error }) => onOneLine(error ?? reason), cut: { rank: 2, min: 10 } },
  ]
}

/** An action in steps can fail after some of them. */
function recordsOf({ count, error }: AuditEntry): string | number {
  if (error === undefined) return count ?? 'unknown'
  return count === undefined ? 'failed' : `failed after ${count}`
}
