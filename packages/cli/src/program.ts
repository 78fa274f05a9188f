import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { benchCommand } from './commands/bench.ts'
import { cleanupCommand } from './commands/cleanup.ts'
import { demoCommand } from './commands/demo.ts'
import { discardCommand } from './commands/discard.ts'
import { doctorCommand } from './commands/doctor.ts'
import { listCommand } from './commands/list.ts'
import { migrateCommand } from './commands/migrate.ts'
import { rearmCommand } from './commands/rearm.ts'
import { relayCommand } from './commands/relay.ts'
import { showCommand } from './commands/show.ts'
import { statusCommand } from './commands/status.ts'
import type { Execute } from './execute.ts'

export interface ProgramOptions {
  readonly execute: Execute
  /** Where help goes. */
  readonly write: (text: string) => void
}

export function buildProgram({ execute, write }: ProgramOptions): Command {
  const program = new Command('ackord')
    .description('See Ackord work, make its tables, run a relay, look after what is parked.')
    .version(versionOf(), '--version')
    .addHelpText(
      'after',
      '\nOptions can be given by ackord.config.ts and by environment variables, which are in brackets in the help of each command.',
    )
    .addCommand(demoCommand(execute))
    .addCommand(migrateCommand(execute))
    .addCommand(relayCommand(execute))
    .addCommand(statusCommand(execute))
    .addCommand(listCommand(execute))
    .addCommand(showCommand(execute))
    .addCommand(rearmCommand(execute))
    .addCommand(discardCommand(execute))
    .addCommand(cleanupCommand(execute))
    .addCommand(doctorCommand(execute))
    .addCommand(benchCommand(execute))
  for (const command of withAll(program)) {
    // Failures are thrown, and told by whoever called.
    command
      .exitOverride()
      .showSuggestionAfterError(true)
      .configureOutput({ writeOut: write, writeErr: () => {} })
  }
  return program
}

function withAll(command: Command): readonly Command[] {
  return [command, ...command.commands.flatMap(withAll)]
}

function versionOf(): string {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { readonly version: string }
  return version
}
