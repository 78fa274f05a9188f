import { InvalidArgumentError, Option } from 'commander'

/** For commands that look at dead letters. */
export function deliveryLimitOption(): Option {
  const description =
    'the delivery limit of the queue: letters are no longer looked at when half of it is used up; none: always (RabbitMQ; default: 20)'
  return new Option('--delivery-limit <count>', description).argParser(parseDeliveryLimit)
}

function parseDeliveryLimit(text: string): number | 'none' {
  if (text === 'none') return text
  const limit = /^\d+$/.test(text) ? Number(text) : 0
  if (Number.isSafeInteger(limit) && limit >= 2) return limit
  throw new InvalidArgumentError('It must be a whole number, 2 or more, or none.')
}
