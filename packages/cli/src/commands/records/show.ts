import { findPartition, type OutboxAdmin, type OutboxRecord, type RecordFailure, type RecordPartition } from '@ackord/outbox'
import type { Command } from 'commander'
import { CommandError, exitCode } from '../../output/errors.ts'
import type { Output } from '../../output/output.ts'
import { checkIds, matchingPages, recordObject } from '../../output/records.ts'
import { instant, printable } from '../../output/text.ts'
import type { Execute } from '../../session.ts'
import { messageIdOption, storeCommand } from '../../settings/settings.ts'
import { openStoreOf, type StoreOptions } from '../../stores/open-store.ts'

interface ShowOptions extends StoreOptions {
  readonly messageId?: string | undefined
  readonly data?: boolean | undefined
}

export function showCommand(execute: Execute): Command {
  return storeCommand('show')
    .description('Shows one record, or all records of a message, with their attributes.')
    .argument('[id]', 'id of the record, as listed by `ackord list`')
    .addOption(messageIdOption('instead of an id: all records of the message with this id'))
    .option('--data', 'include the payload, which may be confidential')
    .action(
      execute(async (session, options: ShowOptions, ids) => {
        const { output } = session
        checkIds(ids, options)
        await using store = await openStoreOf(options, session)
        const admin = store.outbox({ logger: output.logger() })
        const records = await find(admin, ids, options)
        if (records.length === 0) throw notFound(ids, options, store.address)
        for (const [index, record] of records.entries()) {
          if (index > 0) output.line()
          const partition = await findPartition(admin, record)
          const history = (await admin.history?.(record.id)) ?? []
          show(output, record, { history, partition, withData: options.data === true })
        }
        return exitCode.ok
      }),
    )
}

async function find(admin: OutboxAdmin, [id = '']: readonly string[], { messageId }: ShowOptions): Promise<readonly OutboxRecord[]> {
  if (messageId === undefined) return [await admin.get(id)].filter((record) => record !== undefined)
  const found: OutboxRecord[] = []
  for await (const records of matchingPages(admin, { messageId })) found.push(...records)
  return found
}

function notFound([id = '']: readonly string[], { messageId }: ShowOptions, address: string): CommandError {
  const missing = messageId === undefined ? `no record '${printable(id)}'` : `no record of the message '${printable(messageId)}'`
  return new CommandError(`There is ${missing} in ${address}.`, {
    exitCode: exitCode.failed,
    hint: 'It may have been published and deleted; `ackord list` shows the ids.',
  })
}

interface ShownParts {
  readonly history: readonly RecordFailure[]
  readonly partition: RecordPartition | undefined
  readonly withData: boolean
}

function show(output: Output, record: OutboxRecord, { history, partition, withData }: ShownParts): void {
  const { attributes, data } = record.message
  const fields = recordObject(output, record)
  const errors = history.map(({ at, error }) => ({ at: instant(at), error: output.masked(error) }))
  const shown = { ...fields, partition: partition && partitionObject(partition), attributes, errors }
  output.object(withData ? { ...shown, data_base64: Buffer.from(data).toString('base64') } : shown)
  for (const [name, value] of Object.entries({ ...fields, partition: partition && partitionText(partition) })) {
    if (value !== undefined) output.line(`${output.colours.bold(name.padEnd(14))}${printable(String(value))}`)
  }
  output.line(output.colours.bold('attributes'))
  for (const [name, value] of Object.entries(attributes)) output.line(`  ${printable(name)}: ${printable(String(value))}`)
  if (errors.length > 0) output.line(output.colours.bold('errors, the latest first'))
  for (const { at, error } of errors) output.line(`  ${at} ${printable(error)}`)
  if (withData) output.line(`${output.colours.bold('data')}\n${readable(data)}`)
}

function partitionObject({ number, owner }: RecordPartition): object {
  return { number, owner: owner && { id: owner.id, host: owner.host, pid: owner.pid } }
}

function partitionText({ number, owner }: RecordPartition): string {
  return owner === undefined ? `${number}, no relay has reported that it owns it` : `${number}, owned by ${owner.host} pid ${owner.pid}`
}

/** As text if it is valid UTF-8. */
export function readable(data: Uint8Array): string {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(data)
    return text.split('\n').map(printable).join('\n')
  } catch {
    return `${Buffer.from(data).toString('base64')} (base64)`
  }
}
