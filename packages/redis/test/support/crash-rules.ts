// The names and limits that the service and the test share.
export const consumer = 'orders'
export const batchSize = 5

export function ordersKey(tag: string): string {
  return `{${tag}}:orders`
}
