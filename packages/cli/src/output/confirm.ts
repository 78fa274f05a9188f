import { once } from 'node:events'
import { createInterface } from 'node:readline/promises'
import { abortable } from '@ackord/core/internal'
import { CommandError, exitCode, usageError } from './errors.ts'
import type { Output } from './output.ts'

export interface ConfirmOptions {
  /** Whether the user has confirmed it already. */
  readonly yes?: boolean | undefined
  readonly signal: AbortSignal
}

/** Asks the user on a terminal. Rejects unless the answer is yes, and without a terminal unless `--yes` was passed. */
export async function confirm(output: Output, question: string, { yes = false, signal }: ConfirmOptions): Promise<void> {
  if (yes) return
  if (!output.terminal || !process.stdin.isTTY) throw usageError(question, 'There is no terminal to confirm this on: add --yes.')
  // Not in raw mode, where Ctrl-C would not send a signal.
  const terminal = createInterface({ input: process.stdin, output: process.stdout, terminal: false })
  try {
    const closed = once(terminal, 'close').then(() => '')
    const answer = await abortable(Promise.race([terminal.question(`${question} [y/N] `), closed]), signal)
    if (/^y(es)?$/i.test(answer.trim())) return
  } finally {
    terminal.close()
  }
  throw new CommandError('Nothing was changed.', { exitCode: exitCode.failed })
}
