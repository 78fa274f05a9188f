/** What the service and the test agree on. */
export const consumer = 'orders'
export const batchSize = 5
