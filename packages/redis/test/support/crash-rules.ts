// What the service and whoever looks at it agree on.
export const consumer = 'orders'
export const batchSize = 5

export function ordersKey(tag: string): string {
  return `{${tag}}:orders`
}
