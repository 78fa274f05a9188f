import { type DeadLetterPort, deadLetterPort } from '@ackord/core/broker'
import type { Broker, LettersOptions } from '../brokers/broker.ts'
import { openBroker } from '../brokers/open-broker.ts'
import { lettersOf, openLetters } from '../brokers/open-letters.ts'
import { unlessAborted } from '../lifecycle.ts'
import { usageError } from '../output/errors.ts'
import { talkingTo } from '../output/explain-failure.ts'
import type { Session } from '../session.ts'
import { namedUrls } from '../settings/named-urls.ts'

export interface DeadLetterOptions extends LettersOptions {
  /** URLs, each alone or as `name=url`. */
  readonly brokers: readonly string[]
  /** Dead-letter destinations; with several brokers as `broker=destination`. */
  readonly deadLetters: readonly string[]
}

export interface OpenedDeadLetters extends AsyncDisposable {
  /** By the names on the page. */
  readonly ports: Readonly<Record<string, DeadLetterPort>>
}

/** Connects to the brokers that have dead letters. Looks once at each destination, so that a wrong name is reported at the start. */
export async function openDeadLetters(
  session: Session,
  { brokers: urls, deadLetters, group, deliveryLimit }: DeadLetterOptions,
): Promise<OpenedDeadLetters> {
  const { output, secrets, signal } = session
  const logger = output.logger()
  const brokers = new Map<string, Broker>()
  const close = async () => {
    for (const broker of brokers.values()) await broker[Symbol.asyncDispose]()
  }

  async function brokerAt({ broker: name, url }: LetterLocation): Promise<Broker> {
    const broker = brokers.get(name) ?? (await unlessAborted(openBroker(url, { option: '--broker', logger, secrets }), signal))
    brokers.set(name, broker)
    return broker
  }

  async function portAt(location: LetterLocation): Promise<DeadLetterPort> {
    const broker = await brokerAt(location)
    return await talkingTo(broker.address, async () => {
      // The same for all looks: that of RabbitMQ remembers which letters were delivered too often.
      const finding = lettersOf(broker, location.destination, { group, deliveryLimit })
      const open = async () => await openLetters(await finding)
      const first = await unlessAborted(open(), signal)
      await first[Symbol.asyncDispose]()
      return deadLetterPort({ open, logger, mask: (text) => output.masked(text) })
    })
  }

  try {
    const ports: Record<string, DeadLetterPort> = {}
    for (const location of locationsOf(deadLetters, namedUrls('--broker', urls))) ports[location.name] = await portAt(location)
    return { ports, [Symbol.asyncDispose]: close }
  } catch (error) {
    await close()
    throw error
  }
}

interface LetterLocation {
  /** The name on the page. */
  readonly name: string
  readonly broker: string
  readonly url: string
  readonly destination: string
}

/** The destinations with the dead letters. With one broker every text is the name of a destination, whatever it contains. */
function locationsOf(texts: readonly string[], brokers: ReadonlyMap<string, string>): readonly LetterLocation[] {
  if (texts.length === 0) return []
  const [[only, onlyUrl] = [], ...others] = brokers
  if (only === undefined || onlyUrl === undefined)
    throw usageError('--broker is missing: it has the dead letters.', `Pass it, set ACKORD_BROKER, or set 'broker' in ackord.config.ts.`)
  if (others.length === 0) return texts.map((destination) => ({ name: destination, broker: only, url: onlyUrl, destination }))
  return texts.map((text) => {
    const [, broker = '', destination = ''] = /^([^=]+)=(.+)$/s.exec(text) ?? []
    const url = brokers.get(broker)
    if (url !== undefined) return { name: `${broker}/${destination}`, broker, url, destination }
    throw usageError(
      `--dead-letters does not say which broker has '${text}'.`,
      `Write it as broker=destination. The brokers are ${[...brokers.keys()].join(', ')}.`,
    )
  })
}
