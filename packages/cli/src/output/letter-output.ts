import type { Letter } from '@ackord/core/internal'
import type { Output } from './output.ts'
import type { Column } from './table.ts'
import { instant, onOneLine } from './text.ts'

/** A letter as JSON, without its payload. The reason may come from a driver. */
export function letterObject(output: Output, letter: Letter): Record<string, unknown> {
  const { stored, message, id, destination, reason, code, failedAt, problem, replayable } = letter
  return {
    id,
    position: stored.position,
    type: message.type,
    source: message.source,
    key: message.partitionKey,
    destination,
    failed_at: instant(failedAt),
    code,
    reason: reason === undefined ? undefined : output.masked(reason),
    problem: problem === undefined ? undefined : output.masked(problem),
    replayable: replayable === 'yes' && destination !== undefined,
    bytes: message.data.byteLength,
  }
}

/** The lines of a table of letters. On a terminal the reason is cut first, then the origin and the type; ids never are. */
export function letterTable(output: Output, letters: readonly Letter[]): readonly string[] {
  const columns: readonly Column<Letter>[] = [
    { heading: 'ID', cell: ({ id }) => id },
    { heading: 'TYPE', cell: ({ message }) => message.type ?? '', cut: { rank: 3, min: 8 } },
    { heading: 'CAME FROM', cell: ({ destination }) => destination ?? 'unknown', cut: { rank: 2, min: 9 } },
    { heading: 'FAILED', cell: ({ failedAt }) => instant(failedAt) ?? '', omit: 1 },
    {
      heading: 'REASON',
      cell: ({ reason, problem }) => onOneLine(output.masked([reason, problem].filter((text) => text !== undefined).join('; '))),
      cut: { rank: 1, min: 16 },
      omit: 2,
    },
  ]
  return output.table(columns, letters)
}
