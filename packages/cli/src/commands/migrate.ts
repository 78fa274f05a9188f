import type { Command } from 'commander'
import { exitCode } from '../output/errors.ts'
import type { Execute, Session } from '../session.ts'
import { newCommand, parseChoice, setting, storeCommand } from '../settings/settings.ts'
import { isRedisUrl } from '../settings/urls.ts'
import { openStoreOf, type StoreOptions } from '../stores/open-store.ts'
import type { SchemaChoices } from '../stores/store.ts'

export function migrateCommand(execute: Execute): Command {
  return newCommand('migrate')
    .description('Creates, prints or validates the tables.')
    .addCommand(upCommand(execute))
    .addCommand(printCommand(execute))
    .addCommand(validateCommand(execute))
}

interface MigrateOptions extends StoreOptions {
  readonly inboxPartitions?: string | undefined
}

function migrationCommand(name: string): Command {
  const description =
    'whether the inbox consists of partitions, which the cleanup empties instead of deleting rows (PostgreSQL; default: as it is)'
  return storeCommand(name).addOption(setting('--inbox-partitions <true|false>', description, { parse: parseChoice('true', 'false') }))
}

function schemaChoices({ inboxPartitions }: MigrateOptions): SchemaChoices {
  return inboxPartitions === undefined ? {} : { inbox: { partitions: inboxPartitions === 'true' } }
}

function upCommand(execute: Execute): Command {
  return migrationCommand('up')
    .description('Creates the tables, or upgrades older ones. Idempotent, and safe to run concurrently.')
    .action(
      execute(async (session, options: MigrateOptions) => {
        await using store = await openStoreOf(options, session, { create: true })
        if (store.kind === 'redis') return noTables(session)
        await store.createSchema(schemaChoices(options))
        session.output.object({ store: store.address, schema: 'up to date' })
        session.output.line(`The tables in ${store.address} are up to date.`)
        return exitCode.ok
      }),
    )
}

function printCommand(execute: Execute): Command {
  return migrationCommand('print')
    .description('Prints the SQL that creates the tables, for your own migrations. Connects to nothing: --store postgres: is enough.')
    .action(
      execute(async (session, options: MigrateOptions) => {
        if (isRedisUrl(options.store ?? '')) return noTables(session)
        await using store = await openStoreOf(options, session, { connect: false })
        if (store.kind === 'redis') return noTables(session)
        const sql = store.printSchema(schemaChoices(options))
        session.output.object({ sql })
        session.output.line(sql.trimEnd())
        return exitCode.ok
      }),
    )
}

function validateCommand(execute: Execute): Command {
  return migrationCommand('validate')
    .description('Validates that the tables exist in a version that this command supports. Changes nothing.')
    .action(
      execute(async (session, options: MigrateOptions) => {
        await using store = await openStoreOf(options, session)
        if (store.kind === 'redis') return noTables(session)
        await store.validateSchema(schemaChoices(options))
        session.output.object({ store: store.address, schema: 'valid' })
        session.output.line(`The tables in ${store.address} are valid.`)
        return exitCode.ok
      }),
    )
}

function noTables({ output }: Session): 0 {
  output.object({ schema: 'none needed' })
  output.line('Redis needs no tables.')
  return exitCode.ok
}
