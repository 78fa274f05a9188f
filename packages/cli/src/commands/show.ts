import type { Command } from 'commander'
import { CommandError, exitCode } from '../output/errors.ts'
import { printable } from '../output/output.ts'
import { recordObject } from '../output/records.ts'
import type { Execute } from '../session.ts'
import { storeCommand } from '../settings/settings.ts'
import { openStoreOf, type StoreOptions } from '../stores/open-store.ts'

interface ShowOptions extends StoreOptions {
  readonly data?: boolean | undefined
}

export function showCommand(execute: Execute): Command {
  return storeCommand('show')
    .description('Shows one record, with its attributes.')
    .argument('<id>', 'id of the record, as listed by `ackord list`')
    .option('--data', 'include the payload, which may be confidential')
    .action(
      execute(async (session, options: ShowOptions, [id = '']) => {
        const { output } = session
        await using store = await openStoreOf(options, session)
        const record = await store.outbox({ logger: output.logger() }).get(id)
        if (record === undefined) {
          throw new CommandError(`There is no record '${printable(id)}' in ${store.address}.`, {
            exitCode: exitCode.failed,
            hint: 'It may have been published and deleted; `ackord list` shows the ids.',
          })
        }
        const { attributes, data } = record.message
        const fields = recordObject(output, record)
        const shown = { ...fields, attributes }
        output.object(options.data === true ? { ...shown, data_base64: Buffer.from(data).toString('base64') } : shown)
        for (const [name, value] of Object.entries(fields)) {
          if (value !== undefined) output.line(`${output.colours.bold(name.padEnd(14))}${printable(String(value))}`)
        }
        output.line(output.colours.bold('attributes'))
        for (const [name, value] of Object.entries(attributes)) output.line(`  ${printable(name)}: ${printable(String(value))}`)
        if (options.data === true) output.line(`${output.colours.bold('data')}\n${readable(data)}`)
        return exitCode.ok
      }),
    )
}

/** As text if it is valid UTF-8. */
function readable(data: Uint8Array): string {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(data)
    return text.split('\n').map(printable).join('\n')
  } catch {
    return `${Buffer.from(data).toString('base64')} (base64)`
  }
}
