import { rejectUnknownOptions } from '@ackord/core/internal'
import type { TransactionOptions } from '@ackord/sql'
import type { InjectionToken, ModuleMetadata, Provider } from '@nestjs/common'
import { ClsPluginTransactional, getTransactionHostToken } from '@nestjs-cls/transactional'
import { getDatabaseToken } from '../instance/tokens.ts'
import { AckordTransactionHost } from './ackord-transaction-host.ts'
import { TransactionalAdapterAckord } from './transactional-adapter-ackord.ts'

export interface ClsPluginAckordOptions {
  /** The injection token of the `Database`. Default: that of `AckordModule`. */
  readonly databaseToken?: InjectionToken | undefined
  /** The modules that export the database. Default: none; it comes from a global module. */
  readonly imports?: ModuleMetadata['imports'] | undefined
  /** Needed when the application has several databases: `@Transactional('orders')`. Default: the unnamed connection. */
  readonly connectionName?: string | undefined
  /** For transactions that `@Transactional()` begins. Default: those of `database.write()`. */
  readonly defaultTxOptions?: TransactionOptions | undefined
  /** Whether `@InjectTransaction()` can be used. Default: false. */
  readonly enableTransactionProxy?: boolean | undefined
}

/**
 * The transactions of `@nestjs-cls/transactional` on a `Database`, in place of `ClsPluginTransactional` with the adapter of a client. `@Transactional()` in a message
 * handler takes part in the transaction of the message, and `outbox.append()` in a `@Transactional()` method takes part in that of the method.
 *
 *     ClsModule.forRoot({ plugins: [new ClsPluginAckord()] })
 */
export class ClsPluginAckord extends ClsPluginTransactional {
  constructor(options: ClsPluginAckordOptions = {}) {
    const {
      databaseToken = getDatabaseToken(),
      imports = [],
      connectionName,
      defaultTxOptions,
      enableTransactionProxy = false,
      ...unknown
    } = options
    rejectUnknownOptions('ClsPluginAckord', unknown)
    super({
      adapter: new TransactionalAdapterAckord(databaseToken, defaultTxOptions),
      imports,
      enableTransactionProxy,
      ...(connectionName === undefined ? {} : { connectionName }),
    })
    const hostToken = getTransactionHostToken(connectionName)
    this.providers = this.providers.map((provider): Provider => {
      const isHost = 'provide' in provider && provider.provide === hostToken
      return isHost ? { provide: hostToken, useClass: AckordTransactionHost } : provider
    })
  }
}
