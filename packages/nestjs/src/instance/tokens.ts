import { checkName } from '@ackord/core/internal'
import { Inject } from '@nestjs/common'

/** The name of an instance that was given none. */
export const defaultInstance = 'default'

// Strings instead of symbols: a project may load two copies of this package, one by import and one by require.
function tokenOf(kind: string, instance: string = defaultInstance): string {
  return `ackord:${kind}:${checkName('The name of an Ackord instance', instance)}`
}

/** The token of an `AckordInstance`. Default: that of the instance without a name. */
export function getInstanceToken(instance?: string | undefined): string {
  return tokenOf('instance', instance)
}

/** The token of the outbox of an instance. */
export function getOutboxToken(instance?: string | undefined): string {
  return tokenOf('outbox', instance)
}

/** The token of the `Database` or the `Redis` of an instance. */
export function getDatabaseToken(instance?: string | undefined): string {
  return tokenOf('database', instance)
}

/** The token of the health indicator of an instance. That of the instance without a name is also found by its class. */
export function getHealthIndicatorToken(instance?: string | undefined): string {
  return tokenOf('health', instance)
}

/** @internal The token of what an instance is made of, which a testing module replaces. */
export function getSettingsToken(instance?: string | undefined): string {
  return tokenOf('settings', instance)
}

type ParameterOrProperty = PropertyDecorator & ParameterDecorator

/** Injects an `AckordInstance`. */
export function InjectAckord(instance?: string | undefined): ParameterOrProperty {
  return Inject(getInstanceToken(instance))
}

/** Injects the outbox: `SqlOutbox<Handle>`, or `StreamOutbox` on Redis. */
export function InjectOutbox(instance?: string | undefined): ParameterOrProperty {
  return Inject(getOutboxToken(instance))
}

/** Injects the `Database<Handle>` or the `Redis`. Their `executor()` and `commands()` find the transaction of the message that is being handled. */
export function InjectDatabase(instance?: string | undefined): ParameterOrProperty {
  return Inject(getDatabaseToken(instance))
}

/** Injects the `AckordHealthIndicator` of a named instance. */
export function InjectHealthIndicator(instance?: string | undefined): ParameterOrProperty {
  return Inject(getHealthIndicatorToken(instance))
}
